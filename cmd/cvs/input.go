package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Bounds of what is read whole, in bytes.
const (
	maxResultFile = 1 << 30
	maxInputFile  = 16 << 20
)

// readInput reads a file that the user named. A pipe or a device is refused: a
// process would hang on it, deaf to an interrupt, and what it gave could not be
// read again to check it.
func readInput(path string, most int64) ([]byte, error) {
	if err := regular(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() > most {
		return nil, fmt.Errorf("%s: the file has %d bytes, at most %d are read", path, st.Size(), most)
	}
	// not io.ReadAll, which would copy a large file several times while it grows
	data := make([]byte, st.Size())
	n, err := io.ReadFull(f, data)
	if err == io.ErrUnexpectedEOF || err == io.EOF { // it was cut meanwhile
		err = nil
	}
	return data[:n], err
}

// regular is an error if path is no regular file or link to one.
func regular(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s: expected a regular file, found a %s", path, kindOf(st.Mode()))
	}
	return nil
}

func kindOf(m fs.FileMode) string {
	switch m.Type() {
	case fs.ModeDir:
		return "folder"
	case fs.ModeNamedPipe:
		return "named pipe"
	case fs.ModeSocket:
		return "socket"
	}
	return "device"
}
