package audit

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// file is where lines go. One goroutine uses it.
type file struct {
	path string // Stdout: f is standard output
	f    *os.File
	info os.FileInfo // of f
}

func openFile(path string) (*file, error) {
	if path == Stdout {
		return &file{path: path, f: os.Stdout}, nil
	}
	out := &file{path: path}
	return out, out.open()
}

// open opens what is now under the path, in the place of the file before.
func (o *file) open() error {
	f, err := os.OpenFile(o.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = endLine(f, info)
	}
	if err != nil {
		f.Close()
		return err
	}
	if o.f != nil {
		o.f.Close()
	}
	o.f, o.info = f, info
	return nil
}

// endLine ends the line that a crash has cut off, so that the next one is whole.
func endLine(f *os.File, info os.FileInfo) error {
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return nil
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], info.Size()-1); err != nil && err != io.EOF {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	_, err := f.Write([]byte{'\n'})
	return err
}

// follow opens the path anew if it leads to another file than the one that is open, or to none: that was moved away by a
// rotation. It reports whether it did.
func (o *file) follow() (moved bool, err error) {
	if o.path == Stdout {
		return false, nil
	}
	switch info, err := os.Stat(o.path); {
	case err == nil && os.SameFile(info, o.info):
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	if err := o.open(); err != nil {
		return false, err
	}
	return true, nil
}

func (o *file) close() error {
	if o.path == Stdout {
		return nil
	}
	return o.f.Close()
}
