// Shows notifications that a notifier of type PUSH sends, also while no page is open. `tag` is the message's id: what
// comes twice is seen once.
self.addEventListener("push", (event) => {
  const { title, body, tag } = event.data.json();
  event.waitUntil(self.registration.showNotification(title, { body, tag, icon: "headrace.svg" }));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(self.clients.openWindow("/ui/alerts"));
});
