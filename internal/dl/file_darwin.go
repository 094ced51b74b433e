package dl

// checkFile leaves it to the loader, which checks files itself.
func checkFile(string) error { return nil }
