package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// found are paths of NVIDIA's libraries, "" for one that is left to the system's loader.
type found struct {
	NVRTC  string `json:"nvrtc"`
	CUBLAS string `json:"cublas"`
	CUDNN  string `json:"cudnn"`
}

// patterns are what files of libraries are called.
var patterns = []struct {
	to      func(*found) *string
	pattern string
}{
	{func(f *found) *string { return &f.NVRTC }, "libnvrtc.so.1[23]"},
	{func(f *found) *string { return &f.CUBLAS }, "libcublasLt.so.1[23]"},
	{func(f *found) *string { return &f.CUDNN }, "libcudnn.so.9"},
}

// search fills in what is not named: from the packages of a Python, where there is one, and then from the folders that CUDA is installed in.
func (f *found) search(python string) {
	var folders []string
	if python != "" {
		const script = "import json, sys; print(json.dumps(sys.path))"
		if out, err := exec.Command(python, "-c", script).Output(); err == nil {
			var paths []string
			_ = json.Unmarshal(out, &paths) // none are found then
			for _, p := range paths {
				folders = append(folders, filepath.Join(p, "nvidia", "*", "lib"))
			}
		}
	}
	folders = append(folders, "/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*-linux/lib", "/usr/lib/*-linux-gnu")
	for _, p := range patterns {
		to := p.to(f)
		for _, folder := range folders {
			if *to != "" {
				break
			}
			// Of several the newest: names end in versions.
			if names, err := filepath.Glob(filepath.Join(folder, p.pattern)); err == nil && len(names) > 0 {
				slices.Sort(names)
				*to = names[len(names)-1]
			}
		}
	}
}

// environment is that of a process which opens the libraries: what they open by name lies beside them.
func (f *found) environment() []string {
	var folders []string
	for _, p := range patterns {
		if path := *p.to(f); filepath.IsAbs(path) && !slices.Contains(folders, filepath.Dir(path)) {
			folders = append(folders, filepath.Dir(path))
		}
	}
	if old := os.Getenv("LD_LIBRARY_PATH"); old != "" {
		folders = append(folders, old)
	}
	return append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(folders, ":"))
}
