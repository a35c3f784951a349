"""How everything looks: the token table, the theme that resolves it, the icons, and the stylesheet made from both."""
