package plugin

// PID returns the number of the process that a backend's plugin runs in, 0 where there is none at the moment.
func PID(b *Backend) int {
	if b.p.proc == nil {
		return 0
	}
	return b.p.proc.PID()
}

// Functions returns the names that calls have in errors, in the order of the table, and the place of the first.
func Functions() ([]string, int) { return functions[:], int(firstFunction) }
