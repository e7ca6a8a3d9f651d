"""DeviceClasses: what each matches and how much of it is free; creating and changing them for
administrators."""
