"""Pages of bookings."""

from django.urls import path

from claims.views import bookings

urlpatterns = [
    path("catalogue/<slug:slug>/calendar/", bookings.booking_calendar, name="booking-calendar"),
    path("bookings/", bookings.booking_list, name="booking-list"),
    path("bookings/new/", bookings.booking_create, name="booking-create"),
    path("bookings/check/", bookings.booking_check, name="booking-check"),
    path("bookings/<uuid:key>/", bookings.booking_detail, name="booking-detail"),
    path("bookings/<uuid:key>/cancel/", bookings.booking_cancel, name="booking-cancel"),
    path("bookings/<uuid:key>/approve/", bookings.booking_approve, name="booking-approve"),
    path("bookings/<uuid:key>/reject/", bookings.booking_reject, name="booking-reject"),
]
