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

// Styles that scripts of the page create have its nonce; those in a text that becomes HTML have none, and do not count.
const { nonce } = document.querySelector("script[nonce]");
const { createElement } = document;
document.createElement = (...given) => {
  const element = createElement.apply(document, given);
  if (element.localName === "style") element.nonce = nonce;
  return element;
};

// -- statement editor ---------------------------------------------------------------------------------------------

// Words for completion, set by the server: names of streams, tables, columns, functions, and keywords.
headrace.words = [];
const BOOSTS = { property: 3, class: 2, keyword: 1, function: 0 };
const STARTS_STATEMENT = 4;

// Completes words, after a dot the columns of the source before it. Where a statement starts, its first words come first.
headrace.complete = (context) => {
  const word = context.matchBefore(/\w*/);
  const qualifier = /(\w+)\.$/.exec(context.state.sliceDoc(Math.max(0, word.from - 100), word.from))?.[1].toUpperCase();
  if (!word.text && !qualifier && !context.explicit) return null;
  const columns = headrace.words.filter(({ type }) => type === "property");
  const own = columns.filter(({ of }) => of.includes(qualifier));
  const offered = !qualifier ? headrace.words : own.length ? own : columns; // the qualifier may be an alias
  const atStart = /(^|;)\s*$/.test(context.state.sliceDoc(0, word.from));
  const boost = ({ type, starts_statement }) => (atStart && starts_statement ? STARTS_STATEMENT : BOOSTS[type]);
  const options = offered.map((one) => ({ label: one.label, type: one.type, detail: one.detail, boost: boost(one) }));
  return { from: word.from, options, validFor: /^\w*$/ };
};

// Sets up the language, completion and underlines, and follows the theme of the page. Of SQL only the language is used:
// the rest of CodeMirror's support would complete its own words, before ours.
headrace.editor = (id) => (headrace.underlined[id] = setUpEditor(id));
const setUpEditor = async (id) => {
  const CM = await import("nicegui-codemirror");
  const element = getElement(id);
  const view = await element.editorPromise;
  const { language } = await CM.languages.find(({ name }) => name === "SQL").load();
  const completion = CM.EditorState.languageData.of(() => [{ autocomplete: headrace.complete }]);
  const { underlines, underline } = defineUnderlines(CM, view);
  view.dispatch({ effects: CM.StateEffect.appendConfig.of([language, completion, underlines]) });
  view.contentDOM.setAttribute("aria-label", "Statements");
  headrace.editors.push(element);
  headrace.colourEditors();
  return underline;
};

// Underlined ranges move with the text, until the next ones replace them.
const defineUnderlines = (CM, view) => {
  const replace = CM.StateEffect.define();
  const mark = CM.Decoration.mark({ class: "hr-wrong" });
  const underlines = CM.StateField.define({
    create: () => CM.Decoration.none,
    update: (ranges, change) =>
      change.effects
        .filter((effect) => effect.is(replace))
        .reduce((_, { value }) => CM.Decoration.set(value, true), ranges.map(change.changes)),
    provide: (field) => CM.EditorView.decorations.from(field),
  });
  const underline = (spans) =>
    view.dispatch({ effects: replace.of(spans.map(([from, to]) => mark.range(from, to))) });
  return { underlines, underline: (text, spans) => view.state.doc.toString() === text && underline(spans) };
};
headrace.underlined = {};

// Underlines the errors of a text, unless it has changed meanwhile. As a property of the editor, they would come with the
// server's copy of the text, which replaces what was typed since.
headrace.underline = async (id, text, spans) => (await headrace.underlined[id])(text, spans);

headrace.editors = [];
headrace.colourEditors = () => {
  const theme = document.body.classList.contains("body--dark") ? "githubDark" : "githubLight";
  headrace.editors.forEach((element) => element.setTheme(theme));
};

// -- calls to the server ------------------------------------------------------------------------------------------

// Requests that change something need the session's CSRF token, and so does the connection of a page. It is kept here,
// because a browser sends the cookie to all ports of a host. Only the log-in hands it out.
headrace.csrf = () => localStorage.getItem("headrace-csrf") ?? "";
globalThis.WebSocket = class extends WebSocket {
  constructor(address, protocols) {
    const url = new URL(address, location.href);
    if (url.host === location.host && headrace.csrf()) url.searchParams.set("csrf", headrace.csrf());
    super(url, protocols);
  }
};

headrace.ask = async (method, path, body) => {
  const headers = { "x-csrf-token": headrace.csrf() };
  const answer = await fetch(`/api/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
  const document = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw new Error(document.what);
  return document;
};

headrace.logOut = async () => {
  headrace.leaving = true;
  await headrace.ask("DELETE", "/session");
  localStorage.removeItem("headrace-csrf");
  location.assign("/ui/log-in");
};

// The server ignores a page whose session has expired, or that lacks the token: redirect it to the log-in page.
headrace.stillKnown = async () => {
  if (headrace.leaving) return;
  const answer = await fetch("/api/v1/session").catch(() => null); // the server may be briefly unreachable
  const session = answer?.ok && (await answer.json()).credential === "session";
  if (answer?.status === 401 || (session && !headrace.csrf())) location.assign(`/ui/log-in?next=${encodeURIComponent(location.pathname)}`);
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
    if (!globalThis.PushManager) throw new Error("this browser does not support web push on this page, which requires HTTPS or localhost");
    if ((await Notification.requestPermission()) !== "granted") throw new Error("notifications are blocked, allow them for this site in the browser settings");
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
