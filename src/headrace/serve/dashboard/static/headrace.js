// Small things that the browser does by itself. Everything else is told by the server.
globalThis.headrace = {
  switchColours() {
    const dark = !document.body.classList.contains("body--dark");
    Quasar.Dark.set(dark);
    this.colourEditors();
    document.cookie = `headrace-colours=${dark ? "dark" : "light"}; path=/ui; max-age=31536000; samesite=strict`;
  },
};

// -- the editor of statements -------------------------------------------------------------------------------------

// Names of streams, tables and keywords are offered while one writes; its colours are those of the page.
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
