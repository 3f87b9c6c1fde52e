// Logs in with a name and a password, and opens the requested page.
if (matchMedia("(prefers-color-scheme: dark)").matches) document.body.classList.add("body--dark");

// A page of the console, never of another server.
const next = () => {
  const asked = new URLSearchParams(location.search).get("next") ?? "";
  const found = URL.canParse(asked, location.origin) ? new URL(asked, location.origin) : location;
  const own = found.origin === location.origin && found.pathname.startsWith("/ui/");
  return own && found !== location ? found.pathname + found.search : "/ui/";
};

if (new URLSearchParams(location.search).get("link") === "used") {
  document.getElementById("refused").textContent = "The link was used already, or it is too old.";
}

const form = document.getElementById("log-in");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await fetch("/api/v1/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(Object.fromEntries(new FormData(form))),
  });
  if (answer.ok) {
    localStorage.setItem("headrace-csrf", (await answer.json()).csrf);
    location.replace(next());
    return;
  }
  const told = await answer.json().catch(() => ({}));
  document.getElementById("refused").textContent = told.what ?? "The log-in failed. Try again.";
});
