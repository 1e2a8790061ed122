//! The store on an embedded SQLite file.
