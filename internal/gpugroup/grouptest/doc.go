// Package grouptest has what specs of the backends of graphics processors share: they run it over a fake driver, over a library that
// runs kernels on the processor, or over a device.
package grouptest
