package reload

import "os"

// OpenToOthers reports whether the file's mode lets every user of the machine read or write it, as secrets should not be.
func OpenToOthers(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o006 != 0
}
