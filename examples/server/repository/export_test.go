package repository

// OnThread is onThread.
var OnThread = onThread
