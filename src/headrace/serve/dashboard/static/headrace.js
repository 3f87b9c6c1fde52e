// Small things that the browser does by itself. Everything else is told by the server.
globalThis.headrace = {
  switchColours(id) {
    const dark = !document.body.classList.contains("body--dark");
    mounted_app.elements[id].props.value = dark; // or the next time it is drawn would take it back
    setDark(dark);
    this.colourEditors();
    document.cookie = `headrace-colours=${dark ? "dark" : "light"}; path=/ui; max-age=31536000; samesite=strict`;
  },
};

// -- the editor of statements -------------------------------------------------------------------------------------

// Names of streams, tables, columns, functions and keywords are offered while one writes; its colours are those of the page.
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

// -- asking the server --------------------------------------------------------------------------------------------

// What changes something shows the session's second token.
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

// The server does not hear a page whose session has ended: such a page leads to the door.
headrace.stillKnown = async () => {
  if (headrace.leaving) return;
  const answer = await fetch("/api/v1/session").catch(() => null); // the server may be away for a moment
  if (answer?.status === 401) location.assign(`/ui/log-in?next=${encodeURIComponent(location.pathname)}`);
};
const untilConnected = setInterval(() => {
  if (!globalThis.socket) return;
  clearInterval(untilConnected);
  socket.on("disconnect", headrace.stillKnown);
  socket.on("connect_error", headrace.stillKnown);
}, 200);

// -- notifications ------------------------------------------------------------------------------------------------

// Have this browser told of what a notifier sends. Gives why not, or nothing.
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
