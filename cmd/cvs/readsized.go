package main

import (
	"io/fs"
	"os"
	"syscall"
)

// readSized is os.ReadFile for who reads thousands of small files and has looked at
// their sizes: it makes half the system calls, because nobody will ever wait for
// such a file to become readable. A file that grew meanwhile is read whole; of
// size 0, which may mean anything, or a large one, reading is left to os.
func readSized(path string, size int64) ([]byte, error) {
	if size <= 0 || size > 1<<20 {
		return os.ReadFile(path)
	}
	fd, err := again(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd) // nothing was written
	data := make([]byte, 0, size+1)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := again(func() (int, error) { return syscall.Read(fd, data[len(data):cap(data)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return data, nil
		}
		data = data[:len(data)+n]
	}
}

// again does f until no signal interrupts it.
func again(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != syscall.EINTR {
			return n, err
		}
	}
}
