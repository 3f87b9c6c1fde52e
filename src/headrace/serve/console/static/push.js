// Shows notifications of a notifier of type PUSH, also while no page is open. `tag` is the message's id, so a duplicate
// is shown once.
self.addEventListener("push", (event) => {
  const { title, body, tag } = event.data.json();
  event.waitUntil(self.registration.showNotification(title, { body, tag, icon: "headrace.svg" }));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(self.clients.openWindow("/ui/alerts"));
});
