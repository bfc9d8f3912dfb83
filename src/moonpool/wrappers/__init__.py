"""Tool definitions -> source text: JSON Schema to IR (`schema`, `ir`), IR to Python, JavaScript and stubs. No I/O."""
