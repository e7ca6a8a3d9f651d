"""How busy what people hold is: added up from what was measured of devices, always with how much of the time
was; and the hint to who holds a device and hardly uses it."""
