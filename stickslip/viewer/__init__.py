"""The viewer: simulations in the browser, several physics side by side, each with its own forces.

- `session`, `lane`, `pull`, `replay`: what is shown, in the thread that steps it
- `page`, `layout`, `bodies`, `shapes`, `contacts`: how it is drawn, in the drawing thread
- `panel`, `settings`, `plots`, `film`: the controls beside it
- `server`, `viewer`, `gallery`: the web server, the public names, static pages
"""

from stickslip.viewer.viewer import Viewer as Viewer
from stickslip.viewer.viewer import view as view
