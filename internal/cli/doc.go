// Package cli is the command line tool carve as a library: each command is one file, and Run takes arguments and writers
// and returns the exit code, so that tests drive the tool in their own process.
//
// Results go to stdout; what is said beside them, progress and errors go to stderr. With --json stdout holds JSON and
// nothing else. An error is one line on stderr and exit code 1.
//
// The package may import everything of carve; nothing imports it but cmd/carve.
package cli
