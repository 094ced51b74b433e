package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed quantise.py
var quantiser []byte

// entrant is a model that is measured: as it is in the zoo, or in another form.
type entrant struct{ name, path, feeds string }

// entrants prepares models, each in these forms: quantise.py says which there are beside "", that of the zoo. A form that the tools
// cannot write of a model is left out.
func entrants(names []string, forms, python, dir string, in inputs) ([]entrant, error) {
	var list []entrant
	for _, name := range names {
		path, feeds, err := prepare(name, dir, in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, form := range strings.Split(forms, ",") {
			s := entrant{strings.TrimSuffix(filepath.Base(name), ".onnx"), path, feeds}
			if form != "" {
				s.name += " " + form
				if s.path, err = quantised(path, form, feeds, python, dir); err != nil {
					fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, err)
					continue
				}
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// quantised writes a model in a form, unless that has been done before, and returns the path of the file.
func quantised(path, form, feeds, python, dir string) (string, error) {
	script, out := filepath.Join(dir, "quantise.py"), filepath.Join(dir, filepath.Base(feeds)+"-"+form+".onnx")
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	if err := os.WriteFile(script, quantiser, 0o600); err != nil {
		return "", err
	}
	if b, err := exec.Command(python, script, path, form, feeds, out).CombinedOutput(); err != nil {
		return "", fmt.Errorf("quantise.py: %w: %s", err, b)
	}
	return out, nil
}
