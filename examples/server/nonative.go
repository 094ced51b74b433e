//go:build nonative

package main

// hostPlugin does nothing: there are no plugins in a program without native libraries.
func hostPlugin() {}
