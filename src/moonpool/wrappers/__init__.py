"""Tool definitions -> source text: JSON Schema to IR (`schema`, `ir`), IR to Python trees and stubs. No I/O."""
