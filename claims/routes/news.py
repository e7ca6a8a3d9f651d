"""What people wait for, and messages to who holds a device."""

from django.urls import path

from claims.views import messages, watches

urlpatterns = [
    path("watches/new/", watches.watch_create, name="watch-create"),
    path("watches/<int:pk>/cancel/", watches.watch_cancel, name="watch-cancel"),
    path("devices/<int:pk>/ask/", messages.device_ask, name="device-ask"),
    path("messages/<uuid:key>/", messages.message_thread, name="message-thread"),
    path("messages/<uuid:key>/mute/", messages.message_mute, name="message-mute"),
    path("mutes/<int:pk>/end/", messages.mute_end, name="mute-end"),
]
