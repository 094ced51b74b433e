// Package repository keeps compiled models by name and version, as they lie in a folder: Triton's layout, a folder of model
// files, or the files of a single model. It loads and unloads while requests run: a version is compiled aside, takes the place
// of the one before in one step, and what it replaces is closed when its last request has ended.
//
// # Layout
//
//	root/<name>/config.pbtxt          optional; see Config
//	root/<name>/<integer>/model.onnx  a version: a file of ONNX, a bundle of carve, or an MXNet symbol with its parameters
//	root/<name>.onnx                  a model of one version, 1
//
// With Options.Single root is the folder of one model: its versions, or its file.
//
// # Where to start
//
// Open reads a root; Repository.Acquire hands out a Version, which Version.Run runs; Load, Unload and Poll change what is
// there. A Repository is safe for concurrent use.
package repository
