// Package testcache keeps what specs compile by a C compiler for the specs of the next time, since the same sources are compiled again
// and again: folders in the user's cache, ${XDG_CACHE_HOME:-~/.cache}/carve-test on Linux, where the zoo's weights are too.
package testcache

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// unused is how long a folder or a file of one that nobody asks for is kept.
const unused = 7 * 24 * time.Hour

// Folder returns a folder of that name for what is made from these texts by this compiler on this processor, and makes it where there is none.
// Of others of the name, and of its own files, it removes what has not been used for a week; Touch says that a file is used. A process
// that lasts longer than that without asking must not rely on them.
func Folder(ctx context.Context, name, compiler string, texts ...string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	about, err := describe(ctx, compiler)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, t := range append([]string{about}, texts...) {
		fmt.Fprintf(sum, "%d ", len(t))
		_, _ = io.WriteString(sum, t) // a hash takes everything
	}
	all := filepath.Join(cache, "carve-test", name)
	dir := filepath.Join(all, fmt.Sprintf("%x", sum.Sum(nil)[:8]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	Touch(dir)
	for _, folder := range []string{all, dir} {
		if err := prune(folder); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// Touch says that a file or folder was used now. Where that cannot be written it is removed sooner.
func Touch(path string) { _ = os.Chtimes(path, time.Time{}, time.Now()) }

// prune removes what a folder has that was not used for long. Others may do the same at the same time.
func prune(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > unused {
			if err := os.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

var described sync.Map // by compiler

// describe returns the compiler's version and what it takes -march=native for.
func describe(ctx context.Context, compiler string) (string, error) {
	if about, ok := described.Load(compiler); ok {
		return about.(string), nil
	}
	about := compiler
	for _, args := range [][]string{{"--version"}, {"-march=native", "-E", "-v", "-x", "c", os.DevNull}} {
		said, err := exec.CommandContext(ctx, compiler, args...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s: %w\n%.1000s", compiler, err, said)
		}
		about += string(said)
	}
	described.Store(compiler, about)
	return about, nil
}
