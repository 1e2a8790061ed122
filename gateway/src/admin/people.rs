//! `PeopleService`.

use std::sync::Arc;

use proto::v1::{self, people_service_server::PeopleService};
use tonic::{Request, Response, async_trait};

use super::status::invalid;
use super::{RpcResult, auth, convert};
use crate::control::Control;

pub(super) struct People {
    pub(super) control: Arc<Control>,
}

#[async_trait]
impl PeopleService for People {
    async fn add_person(
        &self,
        request: Request<v1::AddPersonRequest>,
    ) -> RpcResult<v1::AddPersonResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let v1::AddPersonRequest { account, name, role } = request.into_inner();
        let role = convert::person_role(role).map_err(invalid)?;
        let new = self.control.add_person(&caller, &account, &name, role).await?;
        Ok(Response::new(v1::AddPersonResponse {
            person: Some(convert::person(&new.person.person, new.person.account)),
            code: convert::expose_secret(&new.code),
            expires_at: Some(convert::time(new.expires_at)),
        }))
    }

    async fn list_people(
        &self,
        request: Request<v1::ListPeopleRequest>,
    ) -> RpcResult<v1::ListPeopleResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let people = self.control.list_people(&caller, &request.into_inner().account).await?;
        let people = people.into_iter().map(|view| convert::person(&view.person, view.account));
        Ok(Response::new(v1::ListPeopleResponse { people: people.collect() }))
    }

    async fn set_person_role(
        &self,
        request: Request<v1::SetPersonRoleRequest>,
    ) -> RpcResult<v1::SetPersonRoleResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let v1::SetPersonRoleRequest { person, role } = request.into_inner();
        let role = convert::person_role(role).map_err(invalid)?;
        let view = self.control.set_person_role(&caller, &person, role).await?;
        let person = Some(convert::person(&view.person, view.account));
        Ok(Response::new(v1::SetPersonRoleResponse { person }))
    }

    async fn remove_person(
        &self,
        request: Request<v1::RemovePersonRequest>,
    ) -> RpcResult<v1::RemovePersonResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        self.control.remove_person(&caller, &request.into_inner().person).await?;
        Ok(Response::new(v1::RemovePersonResponse {}))
    }
}
