package main

import (
	"embed"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

//go:embed network.py server.py torch_rival.py jax_rival.py
var scripts embed.FS

// rival is one that networks are measured beside, by a process of its own.
type rival struct {
	name   string
	script string // of the framework, without its end
	mode   string
	on     *child
}

// findRivals returns all of them, in the order of turns, run by a Python; none without one. keep is where they keep what they compile.
func findRivals(python, mode, dir, keep string) ([]rival, error) {
	if python == "" {
		return nil, nil
	}
	folder := filepath.Join(dir, "rivals")
	if err := os.CopyFS(folder, scripts); err != nil {
		return nil, err
	}
	list := []rival{{name: "torch eager", script: "torch_rival", mode: "eager"}, {name: beside, script: "torch_rival", mode: mode}, {name: "XLA", script: "jax_rival"}}
	for i, r := range list {
		list[i].on = &child{name: r.name, command: func() *exec.Cmd {
			cmd := exec.Command(python, filepath.Join(folder, "server.py"), r.script)
			cmd.Env = append(os.Environ(), "TORCHINDUCTOR_CACHE_DIR="+filepath.Join(keep, "inductor"), "XLA_PYTHON_CLIENT_PREALLOCATE=false")
			return cmd
		}}
	}
	return list, nil
}

// without returns rivals but for one, which is not on this machine.
func without(list []rival, name string) []rival {
	return slices.DeleteFunc(slices.Clone(list), func(r rival) bool { return r.name == name })
}
