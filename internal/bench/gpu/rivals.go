package main

import (
	"embed"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed network.py server.py torch_rival.py jax_rival.py
var scripts embed.FS

// rival is one that networks are measured beside, in a process that its framework's other modes share.
type rival struct {
	name      string
	framework string // the script that runs it, without its end
	mode      string
}

// rivals are all of them, in the order of turns.
func rivals() []rival {
	return []rival{{"torch eager", "torch", "eager"}, {beside, "torch", "compile"}, {"XLA", "jax", "jit"}}
}

// frameworks returns a process for each framework, of a Python; none without one. keep is where they keep what they compile.
func frameworks(python, dir, keep string) (map[string]*child, error) {
	if python == "" {
		return nil, nil
	}
	folder := filepath.Join(dir, "rivals")
	if err := os.CopyFS(folder, scripts); err != nil {
		return nil, err
	}
	list := map[string]*child{}
	for _, r := range rivals() {
		if list[r.framework] != nil {
			continue
		}
		script := filepath.Join(folder, r.framework+"_rival.py")
		list[r.framework] = &child{name: r.framework, command: func() *exec.Cmd {
			cmd := exec.Command(python, script)
			cmd.Env = append(os.Environ(), "TORCHINDUCTOR_CACHE_DIR="+filepath.Join(keep, "inductor"), "XLA_PYTHON_CLIENT_PREALLOCATE=false", "PYTHONUNBUFFERED=1")
			return cmd
		}}
	}
	return list, nil
}
