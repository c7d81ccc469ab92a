"""ComFree: closed-form contact in the dual cone. README.md maps the equations to the code."""
