"""Google's dialect, as Gemini CLI and its SDKs speak it: `/v1beta/models/NAME:generateContent` and so on."""
