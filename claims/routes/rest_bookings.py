"""REST of bookings."""

from django.urls import path

from claims.rest import bookings

urlpatterns = [
    path("bookings/", bookings.BookingListView.as_view(), name="api-booking-list"),
    path("bookings.ics", bookings.BookingFeedView.as_view(), name="api-booking-feed"),
    path("bookings/<uuid:key>/", bookings.BookingDetailView.as_view(), name="api-booking-detail"),
    path("bookings/<uuid:key>/cancel/", bookings.BookingCancelView.as_view(), name="api-booking-cancel"),
    path("bookings/<uuid:key>/approve/", bookings.BookingApproveView.as_view(), name="api-booking-approve"),
    path("bookings/<uuid:key>/reject/", bookings.BookingRejectView.as_view(), name="api-booking-reject"),
    path("catalogue/<slug:slug>/availability/", bookings.AvailabilityView.as_view(), name="api-booking-room"),
]
