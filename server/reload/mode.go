package reload

import "os"

// ReadableByOthers reports whether the file's mode lets every user of the machine read it, as secrets should not be.
func ReadableByOthers(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o004 != 0
}
