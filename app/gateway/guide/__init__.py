"""The Guide: questions about this application and this computer, answered from what is looked up."""
