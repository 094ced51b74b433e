package asm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Verify runs the generator made of the files gen (in the current folder, which in a test is the package's) into a
// temporary folder and compares every file it writes with the one checked in. The error names the first file that differs
// or is missing.
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
	return nil
}
