// Types checks the types of packages, specs among them, for the target that GOOS and GOARCH name, from source: in a third of the time
// that compiling them takes. What a compiler says beyond that of a package of Go alone is a function without a body, which is a fault here, too.
//
//	GOOS=darwin GOARCH=arm64 go -C internal/tools run ./types ../.. ./...
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	specs := flag.Bool("specs", true, "check specs, too")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: types [-specs=false] FOLDER PATTERN…")
		os.Exit(2)
	}
	faults, err := check(flag.Arg(0), *specs, flag.Args()[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "types:", err)
		os.Exit(1)
	}
	for _, f := range faults {
		fmt.Fprintln(os.Stderr, f)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
}

// check returns the faults of the packages in a folder that match patterns, of their specs, too, where these are wanted.
func check(dir string, specs bool, patterns ...string) (faults []string, err error) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: dir, Tests: specs}, patterns...)
	if err != nil {
		return nil, err
	}
	if len(loaded) == 0 {
		return nil, fmt.Errorf("no packages match %q in %s", patterns, dir)
	}
	for _, p := range loaded {
		for _, e := range p.Errors {
			faults = append(faults, e.Error())
		}
		if len(p.OtherFiles) > 0 { // bodies in assembly
			continue
		}
		for _, file := range p.Syntax {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Body == nil {
					faults = append(faults, fmt.Sprintf("%s: %s has no body", p.Fset.Position(f.Pos()), f.Name.Name))
				}
			}
		}
	}
	return faults, nil
}
