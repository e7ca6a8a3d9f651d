from django.apps import AppConfig


class InventoryConfig(AppConfig):
    name = "inventory"

    def ready(self) -> None:
        from inventory.proposals.signals import approved
        from inventory.proposals.tasks import on_approved

        approved.connect(on_approved, dispatch_uid="inventory.proposals.roll_out")
