"""The rows of the table of settings, by what they are about; `app.config.table` joins them."""
