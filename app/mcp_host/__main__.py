"""`python -m app.mcp_host`."""

import gc

if __name__ == "__main__":
    # Nothing of what the protocol's library makes as it is imported is garbage, and looking for it takes time.
    gc.disable()
    from app.mcp_host.models import defer_models

    with defer_models():
        from app.mcp_host.program import main

    gc.freeze()
    gc.enable()
    main()
