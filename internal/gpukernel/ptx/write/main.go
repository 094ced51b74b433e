// Command write compiles the kernels that take shapes as arguments, gpukernel.Prebuilt, to PTX for the virtual architectures of package
// ptx, and writes the files that the package embeds. NVRTC 11.8 has written those that are there, so that drivers since CUDA 11.8 take
// them: pip's nvidia-cuda-nvrtc-cu11 has it.
//
//	go run ./internal/gpukernel/ptx/write -nvrtc LIBRARY
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
	"github.com/carve-dev/carve/internal/gpukernel/ptx"
)

func main() {
	path := flag.String("nvrtc", "", "path of NVIDIA's libnvrtc; empty: the loader searches")
	dir := flag.String("dir", "internal/gpukernel/ptx", "folder to write to")
	flag.Parse()
	if err := write(*path, *dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(path, dir string) error {
	lib, err := nvrtc.Open(path)
	if err == nil && (lib.Major != 11 || lib.Minor != 8) {
		err = fmt.Errorf("NVRTC %d.%d is not the 11.8 that is wanted", lib.Major, lib.Minor)
	}
	if err != nil && path == "" { // nobody said that it is here
		fmt.Println("the texts stay as they are:", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, a := range ptx.Architectures() {
		var texts [][]byte
		for _, k := range gpukernel.Prebuilt() {
			text, err := lib.Text(gpukernel.Source(gpukernel.CUDA, k), fmt.Sprintf("compute_%d", a))
			if err != nil {
				return err
			}
			texts = append(texts, text)
		}
		text := ptx.Join(texts)
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		z.Comment = ptx.Digest(gpukernel.Source(gpukernel.CUDA, gpukernel.Prebuilt()...))
		if _, err := z.Write(text); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		name := filepath.Join(dir, ptx.File(a))
		if err := os.WriteFile(name, packed.Bytes(), 0o600); err != nil {
			return err
		}
		fmt.Printf("%s: %d bytes, %d of text by NVRTC %d.%d\n", name, packed.Len(), len(text), lib.Major, lib.Minor)
	}
	return nil
}
