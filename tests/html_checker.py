"""Reading a page as a browser would, far enough to say what is wrong with it."""

from html.parser import HTMLParser

VOID = {"meta", "input", "img", "br", "link"}


class Checker(HTMLParser):
    """Notes what is not closed, and every attribute that could reach outside."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.links: list[str] = []
        self.scripts = 0
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.scripts += tag == "script"
        for name, value in attrs:
            if name in ("src", "href", "action", "data", "srcset"):
                self.links.append(value or "")
            if name.startswith("on"):
                self.wrong.append(f"{tag} {name}")
            if name == "id":
                self.ids.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}>")
