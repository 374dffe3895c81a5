// The Lua scripts are in internal/lua, a file for each. internal/wire says how they are called, and has every kind of lock as
// one literal: its scripts, its keys and its channel.

package rlock
