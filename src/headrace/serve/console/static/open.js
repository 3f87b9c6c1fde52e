// The page of a one-time link: keeps the CSRF token of the session for this origin, and opens the requested page.
const content = (name) => document.querySelector(`meta[name=${name}]`).content;
localStorage.setItem("headrace-csrf", content("csrf"));
location.replace(content("next"));
