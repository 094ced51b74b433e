//go:build !linux

package repository

// giveWay does nothing: other systems have no such thing for a thread.
func giveWay() {}
