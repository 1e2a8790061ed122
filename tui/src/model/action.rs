//! The actions that keys, palette commands and the mouse trigger.

use tui_input::InputRequest;

use super::screen::Screen;

/// The format of copied rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// Comma-separated values with a header.
    Csv,
    /// A JSON array of objects.
    Json,
}

/// A user action. Its effect depends on the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Exits the program.
    Quit,
    /// Releases the terminal and stops the process until it is continued.
    Suspend,
    /// Ends the session.
    SignOut,
    /// Opens the help.
    Help,
    /// Opens the command palette.
    Palette,
    /// Closes the topmost of overlay, detail pane and filter.
    Back,
    /// Opens a screen.
    Open(Screen),
    /// Opens the screen this many tabs to the right; negative is left.
    Tab(isize),
    /// Fetches all displayed data. While disconnected, retries without waiting.
    Refresh,
    /// Switches between the local time zone and UTC.
    ToggleUtc,
    /// Hides the hint for a new user.
    HideFirstSteps,
    /// Toggles mouse reporting.
    Mouse,
    /// Opens the form to change the password.
    Password,
    /// Moves the cursor by this many rows; negative is up.
    Move(isize),
    /// Moves the cursor by this many pages; negative is up.
    Page(isize),
    /// Moves the cursor to the first row.
    First,
    /// Moves the cursor to the last row.
    Last,
    /// Moves the cursor to this row.
    Select(usize),
    /// Scrolls the detail pane by this many lines; negative is up.
    Scroll(isize),
    /// Sorts by the column this many places further right.
    Sort(isize),
    /// Reverses the order of the rows.
    Reverse,
    /// Scrolls the table this many columns to the right; negative is left.
    Sideways(isize),
    /// Opens the choice of columns.
    Columns,
    /// Moves the selected column by this many places.
    Shift(isize),
    /// Shows all columns in their usual order again.
    Reset,
    /// Opens the choice of a value of the selected row.
    CopyValue,
    /// Opens the choice of a theme.
    Theme,
    /// Marks the selected row, or takes its mark away.
    Mark,
    /// Copies the marked rows, or the selected one.
    CopyRows(RowFormat),
    /// Toggles the detail pane.
    Detail,
    /// Opens what belongs to the selected row.
    Enter,
    /// Tries the selected model, or a new key with a model.
    Try,
    /// Chooses the next model to try.
    NextModel,
    /// Shows the record of the request that tried a model, or its answer.
    OpenRecord,
    /// Opens the filter input.
    Filter,
    /// Opens the form that shows the requests before a time.
    Jump,
    /// Pauses or resumes the request log.
    Pause,
    /// Selects the usage range this many steps longer; negative is shorter.
    Range(isize),
    /// Opens the chart of the usage.
    Chart,
    /// Draws the quantity this many steps further in the chart.
    Measure(isize),
    /// Opens the form for a new entry.
    New,
    /// Opens the form to edit the selected entry.
    Modify,
    /// Opens the form to rotate the selected key.
    Rotate,
    /// Asks to remove the selected entry.
    Remove,
    /// Asks to end all other sessions.
    RemoveOthers,
    /// Opens the form to rename the selected account.
    Rename,
    /// Asks to create a code with which the owner of the account sets a new password.
    ResetPassword,
    /// Opens the form to credit the selected account.
    Credit,
    /// Suspends or resumes the selected account.
    ToggleSuspension,
    /// Asks to drain the selected node, or to end that.
    ToggleDraining,
    /// Opens the form to change the plan of the selected account.
    SetPlan,
    /// Opens the form to give the selected account another role.
    Grant,
    /// Copies the text that the selected row offers: an id, a key or a curl command.
    Copy,
    /// Copies the command that configures a coding agent for the selected model.
    CopyAgent,
    /// Copies the `ctl` command that makes the change of the form or the question.
    CopyCommand,
    /// Explains how requests for the selected model are routed.
    Explain,
    /// Starts the selected operation.
    Run,
    /// Stops the selected operation.
    Stop,
    /// Tests whether the selected upstream can be reached.
    TestUpstream,
    /// Asks to end what keeps requests away from the selected upstream.
    ResetUpstream,
    /// Moves this many form fields forward; negative is backward.
    Field(isize),
    /// Chooses the offered value this many rows further down, or moves between form fields.
    Pick(isize),
    /// Switches between the sign-in form and the registration form.
    ToggleRegistration,
    /// Sends the form, applies the filter, or runs the command.
    Submit,
    /// Saves the filter, or forgets that it was saved.
    SaveFilter,
    /// Completes the filter or the palette command.
    Complete,
    /// Confirms the question.
    Confirm,
    /// Edits the text of the focused input.
    Type(InputRequest),
}

// === impl Action ===

impl Action {
    /// Returns whether the action concerns the selected row of a list.
    pub fn needs_row(self) -> bool {
        matches!(
            self,
            Self::Detail
                | Self::Enter
                | Self::Mark
                | Self::Copy
                | Self::CopyAgent
                | Self::CopyRows(_)
                | Self::CopyValue
                | Self::Try
                | Self::Modify
                | Self::Rotate
                | Self::Remove
                | Self::Rename
                | Self::TestUpstream
                | Self::ResetUpstream
                | Self::ResetPassword
                | Self::Credit
                | Self::ToggleSuspension
                | Self::ToggleDraining
                | Self::SetPlan
                | Self::Grant
                | Self::Explain
        )
    }

    /// Returns whether the action prepares or makes a change, or sends a request that costs.
    pub fn is_change(self) -> bool {
        matches!(
            self,
            Self::ToggleRegistration
                | Self::SignOut
                | Self::Password
                | Self::Try
                | Self::New
                | Self::Modify
                | Self::Rotate
                | Self::Remove
                | Self::RemoveOthers
                | Self::Rename
                | Self::TestUpstream
                | Self::ResetUpstream
                | Self::ResetPassword
                | Self::Credit
                | Self::ToggleSuspension
                | Self::ToggleDraining
                | Self::SetPlan
                | Self::Grant
        )
    }
}
