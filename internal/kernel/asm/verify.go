package asm

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Verify runs the generator made of the files gen (in the current folder, which in a test is the package's) into a
// temporary folder and compares every file it writes with the one checked in. The error names the first file that differs
// or is missing. Kernels that are written and nobody calls are an error, too: what should have called them calls another, or they can go.
// It needs the go command: LookPath's error (exec.ErrNotFound) says that there is none.
func Verify(ctx context.Context, gen ...string) error {
	goCmd, err := exec.LookPath("go")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "carve-asm")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, goCmd, append(append([]string{"run"}, gen...), "-dir", dir)...)
	cmd.Env = append(os.Environ(), "GOOS=", "GOARCH=") // specs of another architecture run in an emulator; generators do not
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go run %v: %w\n%s", gen, err, out)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%v wrote no files", gen)
	}
	for _, f := range files {
		want, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		got, err := os.ReadFile(f.Name())
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%s is out of date: run go generate", f.Name())
		}
	}
	return called(".")
}

// called returns an error that names a function of the package in a folder that has no body in Go, and is named nowhere in it but by its generators: in none of
// the files for any processor, nor in a test.
func called(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	declared, named := map[string]string{}, map[string]int{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(text, []byte("//go:build ignore\n")) { // a generator
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body == nil && fn.Recv == nil {
				declared[fn.Name.Name] = name
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				named[id.Name]++
			}
			return true
		})
	}
	for _, fn := range slices.Sorted(maps.Keys(declared)) {
		if named[fn] == 1 { // where it is declared
			return fmt.Errorf("%s: %s is called by nobody", declared[fn], fn)
		}
	}
	return nil
}
