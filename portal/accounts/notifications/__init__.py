"""What the desk tells people: in the portal, by mail and by webhook.

Every room calls `tell` inside the transaction of what it tells about: the notification and what has to be
delivered are rows of that transaction, so that neither is lost nor told without having happened. Afterwards
`portal.accounts.tasks` delivers, again and again until it arrives or is given up.
"""
