// Package rlock TODO
package rlock
