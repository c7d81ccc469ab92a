"""What the site holds: the Markdown of the repository, and what it links to, at the paths they have there.

So a link that works in the repository works on the site. The README is the home page.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PATTERNS = (
    "*.md",
    "LICENSE",
    "CITATION.cff",
    "docs/**/*.md",
    "docs/**/*.png",
    "docs/site/style.css",
    "stickslip/**/README.md",
    "benchmarks/**/*.md",
    "benchmarks/**/*.png",
    "examples/*.py",
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs/, which MkDocs has found, by those of the repository."""
    for file in list(files):
        if file.generated_by is None and Path(file.abs_src_path or "").is_relative_to(config.docs_dir):  # not the theme
            files.remove(file)
    for path in sorted({path for pattern in PATTERNS for path in ROOT.glob(pattern)}):
        name = path.relative_to(ROOT).as_posix()
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to what is in the repository but not on the site, such as folders of source, into plain text."""

    def keep(match: re.Match[str]) -> str:
        path = (ROOT / page.file.src_uri).parent / match["target"]
        path = path.resolve()
        if not path.is_relative_to(ROOT) or not path.exists() or path.relative_to(ROOT).as_posix() in files.src_uris:
            return match[0]
        return match["text"]

    return re.sub(r"(?<!!)\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s#:]+)\)", keep, markdown)
