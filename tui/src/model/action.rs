//! The actions that keys, palette commands and the mouse trigger.

use tui_input::InputRequest;

use super::screen::Screen;

/// What a key can mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Leaves the program.
    Quit,
    /// Gives the terminal back to the shell until the program is continued.
    Suspend,
    /// Ends the session.
    SignOut,
    /// Opens the help.
    Help,
    /// Opens the palette.
    Palette,
    /// Closes what is on top: a box, the detail, the filter.
    Back,
    /// Opens a screen.
    Open(Screen),
    /// Opens the screen so many tabs further.
    Tab(isize),
    /// Fetches everything anew, or connects without waiting.
    Refresh,
    /// Listens to the mouse, or leaves it to the terminal.
    Mouse,
    /// Asks for another password.
    Password,
    /// Moves the cursor by so many rows; negative is up.
    Move(isize),
    /// Moves it by so many pages.
    Page(isize),
    /// Moves the cursor to the first row.
    First,
    /// Moves the cursor to the last row.
    Last,
    /// Puts the cursor on that row.
    Select(usize),
    /// Shows the row in full, or no longer.
    Detail,
    /// Opens the filter.
    Filter,
    /// Lets the log stand still, or go on.
    Pause,
    /// Takes a range that is so many steps longer.
    Range(isize),
    /// Makes a new one.
    New,
    /// Changes the one under the cursor.
    Modify,
    /// Replaces the key under the cursor.
    Rotate,
    /// Removes the one under the cursor.
    Remove,
    /// Adds to the balance of the account under the cursor.
    Credit,
    /// Suspends the account under the cursor, or brings it back.
    ToggleSuspension,
    /// Puts the account under the cursor on another plan.
    SetPlan,
    /// Copies what one needs of the row.
    Copy,
    /// Copies what a coding agent needs of it.
    CopyAgent,
    /// Goes so many fields further.
    Field(isize),
    /// Shows the form to register instead of the one to sign in, or the other way.
    ToggleRegistration,
    /// Sends the form, takes the filter, runs the command.
    Submit,
    /// Writes the chosen command out.
    Complete,
    /// Confirms.
    Confirm,
    /// Changes the text of the field.
    Type(InputRequest),
}
