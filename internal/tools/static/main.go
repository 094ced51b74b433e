// Static fails for ELF programs that are not static: those that ask for a dynamic loader or for shared libraries.
//
//	go -C internal/tools run ./static /path/to/program…
package main

import (
	"debug/elf"
	"fmt"
	"os"
)

func main() {
	status := 0
	for _, path := range os.Args[1:] {
		if err := check(path); err != nil {
			fmt.Fprintf(os.Stderr, "static: %s: %v\n", path, err)
			status = 1
		}
	}
	os.Exit(status)
}

// check returns why a program is not static, nil where it is.
func check(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("it asks for a dynamic loader")
		}
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	if len(libraries) > 0 {
		return fmt.Errorf("it needs %v", libraries)
	}
	return nil
}
