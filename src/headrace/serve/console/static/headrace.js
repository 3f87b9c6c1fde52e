// Functions that run in the browser. Everything else is driven by the server.
globalThis.headrace = {
  switchColours(id) {
    const dark = !document.body.classList.contains("body--dark");
    mounted_app.elements[id].props.value = dark; // otherwise the next redraw would revert it
    setDark(dark);
    this.colourEditors();
    document.cookie = `headrace-colours=${dark ? "dark" : "light"}; path=/ui; max-age=31536000; samesite=strict`;
  },
};

// -- statement editor ---------------------------------------------------------------------------------------------

// Completes names of streams, tables, columns, functions and keywords, and follows the theme of the page.
headrace.editor = async (id, names) => {
  const CM = await import("nicegui-codemirror");
  const element = getElement(id);
  const view = await element.editorPromise;
  const options = names.map((label) => ({ label }));
  const complete = (context) => {
    const word = context.matchBefore(/[\w.]+/);
    return word ? { from: word.from, options, validFor: /^[\w.]*$/ } : null;
  };
  view.dispatch({
    effects: CM.StateEffect.appendConfig.of(CM.EditorState.languageData.of(() => [{ autocomplete: complete }])),
  });
  view.contentDOM.setAttribute("aria-label", "Statements");
  headrace.editors.push(element);
  headrace.colourEditors();
};
headrace.editors = [];
headrace.colourEditors = () => {
  const theme = document.body.classList.contains("body--dark") ? "githubDark" : "githubLight";
  headrace.editors.forEach((element) => element.setTheme(theme));
};

// -- calls to the server ------------------------------------------------------------------------------------------

// Requests that change something need the session's CSRF token.
headrace.ask = async (method, path, body) => {
  const { csrf } = await (await fetch("/api/v1/session")).json();
  const headers = { "x-csrf-token": csrf ?? "" };
  const answer = await fetch(`/api/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
  const told = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw new Error(told.what);
  return told;
};

headrace.logOut = async () => {
  headrace.leaving = true;
  await headrace.ask("DELETE", "/session");
  location.assign("/ui/log-in");
};

// The server ignores a page whose session has expired: redirect it to the log-in page.
headrace.stillKnown = async () => {
  if (headrace.leaving) return;
  const answer = await fetch("/api/v1/session").catch(() => null); // the server may be briefly unreachable
  if (answer?.status === 401) location.assign(`/ui/log-in?next=${encodeURIComponent(location.pathname)}`);
};
const untilConnected = setInterval(() => {
  if (!globalThis.socket) return;
  clearInterval(untilConnected);
  socket.on("disconnect", headrace.stillKnown);
  socket.on("connect_error", headrace.stillKnown);
}, 200);

// -- notifications ------------------------------------------------------------------------------------------------

// Subscribes this browser to a notifier. Returns the reason if it fails, otherwise an empty string.
headrace.subscribe = async (notifier) => {
  try {
    if (!globalThis.PushManager) throw new Error("this browser has no web push, or not for a page without TLS");
    if ((await Notification.requestPermission()) !== "granted") throw new Error("the browser shows no notifications");
    const worker = await navigator.serviceWorker.register("/ui/static/push.js");
    const { key } = await headrace.ask("GET", "/push-key");
    const found = await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    const { endpoint, keys } = found.toJSON();
    await headrace.ask("POST", `/notifiers/${encodeURIComponent(notifier)}/subscriptions`, { endpoint, keys });
    return "";
  } catch (error) {
    return error.message;
  }
};
